package convert

import (
	"regexp"
	"testing"
)

func TestVersionTellsTextsOfANameApart(t *testing.T) {
	t.Parallel()
	one := Version("token", []byte("1234"))
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(one) || one != Version("token", []byte("1234")) {
		t.Errorf("%s is no version", one)
	}
	if one == Version("token", []byte("1235")) || one == Version("other", []byte("1234")) {
		t.Error("two texts have one version")
	}
}
