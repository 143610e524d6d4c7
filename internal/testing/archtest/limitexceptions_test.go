package archtest

// limitExceptions are the places that may be beyond a limit, each with its reason.
var limitExceptions = []exception{
	{"lines", "internal/testing/sim.player.happen", 61, "a switch with one case for each command of a script"},
	{"parameters", "internal/kube/kubeserve.Server.exec", 6, "the signature of a handler of virtual-kubelet"},
	{"parameters", "pkg/admission.checkOrder", 6, "a property of two queues: the one before and the one after a decision"},
	{"parameters", "pkg/service.New", 6, "the members of a service that its creator chooses"},
	{"parameters", "internal/cli/timeline.LaneOf", 6, "a lane has two ends, each with a state and a time"},
	{"parameters", "internal/cli/timeline.picture.text", 6, "the attributes of an SVG text element"},
}
