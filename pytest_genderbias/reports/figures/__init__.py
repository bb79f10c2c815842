"""Pictures of measurements, runs and trainings: as plain data, as matplotlib figures, and as SVG."""
