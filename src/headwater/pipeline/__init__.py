"""A pipeline: one YAML file → a definition → a composed flow → a run."""
