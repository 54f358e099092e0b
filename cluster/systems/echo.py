"""`python echo.py HOST PORT HOST PORT...`: echo what is sent to these addresses, until killed.

Run from its source, in a host that need not have this package's files.
"""

import asyncio
import sys


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what one connection sends."""
    try:
        while data := await reader.read(4096):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


async def main(words: "list[str]") -> None:
    """Listen at every address."""
    addresses = zip(words[::2], words[1::2], strict=True)
    servers = [await asyncio.start_server(echo, host, int(port)) for host, port in addresses]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
