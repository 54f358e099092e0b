"""etcd under Kraftprobe: how it is fetched, run, asked and used."""
