ui = true
