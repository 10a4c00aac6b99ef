"""`phyloop privacy`: which epsilon holds after all rounds of a run, by whom, for whom, and on what it rests."""
