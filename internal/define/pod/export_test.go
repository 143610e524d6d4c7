package pod

import (
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

func documentsOf(src string) ([]*doctree.Node, error) {
	return taskdef.ReadSource("f", []byte(src)).Documents()
}
