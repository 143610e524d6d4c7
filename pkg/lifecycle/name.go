package lifecycle

import "cmp"

// ShortID returns an ID as shown to users: its first 12 characters.
func ShortID(id string) string { return id[:min(len(id), 12)] }

// DisplayName returns what users call the task in commands: its name, else its short ID.
func (s State) DisplayName() string { return cmp.Or(s.Name, ShortID(s.ID)) }
