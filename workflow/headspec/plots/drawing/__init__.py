"""What figures share: style, saving, marks and labels, looks of methods, heat maps, and pages of figures."""
