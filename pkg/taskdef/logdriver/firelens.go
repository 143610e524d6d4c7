package logdriver

// The options of the driver awsfirelens that are not those of the router's output.
const (
	FireLensInclude = "include-pattern"
	FireLensExclude = "exclude-pattern"
	FireLensBuffer  = "log-driver-buffer-limit"
)

// router is the destination of the driver awsfirelens.
type router struct{}

func (router) Destination(container, task string, _ Origin) string {
	return "the FireLens router of the task, tag " + FireLensTag(container, task)
}

// FireLensTag returns the tag that the lines of a container have at the router.
func FireLensTag(container, task string) string { return container + "-firelens-" + task }

// FireLensPlugin returns the option that names the plug-in of an output.
func FireLensPlugin(fluentd bool) string {
	if fluentd {
		return "@type"
	}
	return "Name"
}

// FireLensLacksPlugin reports whether options set up an output without naming its plug-in.
func FireLensLacksPlugin(fluentd bool, options map[string]string) bool {
	if options[FireLensPlugin(fluentd)] != "" {
		return false
	}
	for name := range options {
		if name != FireLensInclude && name != FireLensExclude && name != FireLensBuffer {
			return true
		}
	}
	return false
}
