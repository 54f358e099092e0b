"""Whether a killed harness leaves anything on the machine once `cleanup` has run."""
