# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The colours of all figures."""

# Okabe and Ito's: distinct to all kinds of colour vision.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
# Others, for more than eight.
INDIGO, WINE, TEAL, BROWN = "#332288", "#882255", "#00695C", "#7A5C00"
GREY, ROSE, OLIVE, VIOLET = "#666666", "#CC6677", "#8C8C1A", "#6A3DFF"
