package importer

import "testing"

// A directory whose name no task can have gives the project the name that Compose gives it.
func TestValidName(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{"shop": "shop", "My.App": "My.App", "example+voting app": "examplevotingapp", "_Über": "ber", "+": "+"} {
		if got := validName(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}
