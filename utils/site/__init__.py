"""The course as a site: pages that a browser shows without Python and without a network."""
