"""Backend `netns`: nodes in network namespaces of their own, without root and without Docker."""
