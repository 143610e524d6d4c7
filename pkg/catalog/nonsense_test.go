//go:build !race

package catalog_test

import (
	"testing"

	"github.com/podtask/podtask/internal/nonsense"
	"github.com/podtask/podtask/pkg/catalog"
)

func TestNonsenseCostsLittle(t *testing.T) {
	nonsense.Check(t, "web:", func(text string) { _, _ = catalog.ParseRef(text) })
}
