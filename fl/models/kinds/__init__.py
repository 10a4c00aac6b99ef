"""Models, which `fl.config.model.models` finds by their words."""
