"""The real world behind the four seams: files, asyncio TCP, real time."""
