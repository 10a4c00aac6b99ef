"""What the documentation site generates: pages from the schema, the library and the API; tutorials; equations."""
