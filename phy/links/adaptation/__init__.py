"""Links whose devices send with modulation and coding schemes (MCS) of their own: lists, and link adaptation."""
