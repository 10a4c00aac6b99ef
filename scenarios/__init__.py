"""From a YAML file to curves and a report page: part of phyloop."""
