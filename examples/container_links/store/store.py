"""Numbers by name, kept in a folder: `add NAME` answers with the new number, `end` ends it."""

import socket
from pathlib import Path

PORT = 7379


def main() -> None:
    folder = Path("/data")
    with socket.create_server(("", PORT)) as server:
        print("ready")
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    word, _, name = line.strip().partition(" ")
                    if word == "end":
                        print("ends")
                        return
                    lines.write(f"{added(folder / name)}\n")
                    lines.flush()


def added(file: Path) -> int:
    number = int(file.read_text()) + 1 if file.exists() else 1
    file.write_text(str(number))
    return number


if __name__ == "__main__":
    main()
