"""Topics created, deleted and made larger, and where their replicas go."""
