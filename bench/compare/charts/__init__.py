"""Charts of stored results as SVG: data.py says what is shown, draw.py how. Only draw.py needs matplotlib."""
