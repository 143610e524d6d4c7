package pod

import (
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

func documentsOf(src string) ([]*doctree.Node, error) {
	return taskdef.ReadSource("f", []byte(src)).Documents()
}

// volumeAt has a volume of a name at /srv/data.
func volumeAt(volume string) refs.Table {
	return refs.Table{{Match: "volume:" + volume, Source: "file:/srv/data"}}
}
