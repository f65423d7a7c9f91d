"""Operations on a whole file: migrate, rebuild, verify, back up, export."""
