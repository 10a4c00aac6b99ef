"""Simulated radio links of many devices, with measured error rates: part of phyloop.

Imports run one way, from later to earlier sub-packages: config, measure, numerics, fading, coding, frontends,
receivers, links, engines; `stages` has the interfaces between the stages, `compile` builds a link.
"""
