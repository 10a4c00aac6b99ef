"""Front-ends: waveform, channel, noise and channel estimation (`phy.stages.Frontend`)."""
