"""Backend `docker`: nodes in containers of an engine on this machine."""
