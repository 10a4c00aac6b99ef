"""Tables, figures and the report page of a run."""
