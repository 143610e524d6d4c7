//go:build podtask_core

package parts

import "github.com/podtask/podtask/internal/cli/part"

func linked() []part.Part { return nil }
