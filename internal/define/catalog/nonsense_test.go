//go:build !race

package catalog_test

import (
	"testing"

	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/testing/nonsense"
)

func TestNonsenseCostsLittle(t *testing.T) {
	nonsense.Check(t, "web:", func(text string) { _, _ = catalog.ParseRef(text) })
}
