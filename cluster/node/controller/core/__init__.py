"""The active controller: its queue of events, its appends, its periodic work, its features."""
