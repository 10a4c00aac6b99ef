"""OFDM symbols as samples, for links whose symbols reach other carriers: `phy.config.LinkConfig.mixes_carriers`."""
