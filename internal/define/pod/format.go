package pod

import "github.com/podtask/podtask/internal/define/members"

// apiVersions is the version of the Kubernetes API that the rows are about; a test compares it with the module.
const apiVersions = "k8s.io/api v0.37.2"

// Format is what becomes of every member of the documents that this package reads.
func Format() members.Format {
	f := members.Format{Name: "kubernetes", Title: "Kubernetes documents", Schema: apiVersions}
	for _, r := range rules {
		f.Rows = append(f.Rows, members.Row{Member: r.member, Treatment: r.treatment, Note: r.note})
	}
	return f
}
