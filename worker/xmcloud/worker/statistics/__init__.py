"""What the machine and the attempts on it use, measured at equal intervals."""
