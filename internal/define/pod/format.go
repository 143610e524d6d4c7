package pod

import "github.com/podtask/podtask/internal/define/members"

// apiVersions is the version of the Kubernetes API that the rows are about; a test compares it with the module.
const apiVersions = "k8s.io/api v0.37.2"

// Format is what becomes of every member of the documents that this package reads.
func Format() members.Format {
	f := members.Format{Name: "kubernetes", Title: "Kubernetes documents", Schema: apiVersions}
	for _, r := range allRules() {
		f.Rows = append(f.Rows, members.Row{Member: r.member, Treatment: r.treatment, Note: r.note})
	}
	return f
}

// AnnotationFormat is what becomes of the annotations of Pods that other programs give a meaning.
func AnnotationFormat() members.Format {
	f := members.Format{Name: "annotations", Title: "annotations of Kubernetes documents", Schema: "Podman v5.8.6, Helm, well-known annotations of Kubernetes"}
	for _, r := range annotationRules {
		f.Rows = append(f.Rows, members.Row{Member: r.member, Treatment: r.treatment, Note: r.note})
	}
	return f
}
