"""What a broker has with the controller: registration, directories, producer ids, metadata."""
