"""Models, which `fl.models.model.models` finds by their words."""
