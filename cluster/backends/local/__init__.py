"""Backend `local`: plain processes on loopback, with a proxy on every link."""
