"""Problems that know their optimum."""
