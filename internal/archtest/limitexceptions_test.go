package archtest

// Reasons that several exceptions have.
const (
	document       = "a document: it has the members that the format has"
	podmanDocument = "a document of Podman's API, with the members that podtask uses"
	ecsDocument    = "a document of the ECS API, with the members that clients read"
	record         = "a saved record: its members are what must survive a crash"
)

// limitExceptions are the places that may be beyond a limit, each with its reason.
var limitExceptions = []exception{
	{"fields", "cmd/podtask.plan", 20, document},
	{"fields", "cmd/podtask.planContainer", 14, document},
	{"fields", "cmd/podtask.row", 17, document},
	{"fields", "internal/agent.Agent", 33, "the composition root has one field for each component"},
	{"fields", "internal/awsapi.containerDoc", 16, ecsDocument},
	{"fields", "internal/awsapi.serviceDoc", 28, ecsDocument},
	{"fields", "internal/awsapi.taskDoc", 27, ecsDocument},
	{"fields", "internal/effects.Interpreter", 13, "one field for each component that does a part of the effects"},
	{"fields", "internal/enginesim.world", 17, "everything there is in one run; what a field means depends on no other"},
	{"fields", "internal/owner.Owners", 13, "one field for each component that an owner uses"},
	{"fields", "internal/sim.truth", 14, "what is so of a container, each with the step that changes it"},
	{"fields", "internal/sim.World", 13, "all that tells two worlds apart, so that clone and key have it in one place"},
	{"fields", "pkg/api.Container", 29, document},
	{"fields", "pkg/api.Service", 19, document},
	{"fields", "pkg/api.Task", 38, document},
	{"fields", "pkg/config.Settings", 13, "one group for each part of the configuration"},
	{"fields", "pkg/convert.container", 36, document},
	{"fields", "pkg/libpod.ContainerSpec", 56, podmanDocument},
	{"fields", "pkg/libpod.Host", 15, podmanDocument},
	{"fields", "pkg/libpod.Observed", 20, podmanDocument},
	{"fields", "pkg/libpod.PodSpec", 18, podmanDocument},
	{"fields", "pkg/lifecycle.Container", 37, record},
	{"fields", "pkg/lifecycle.Options", 14, record},
	{"fields", "pkg/lifecycle.Result", 14, "one value for the answers of all kinds of operation, each of which sets some fields"},
	{"fields", "pkg/lifecycle.Sandbox", 22, record},
	{"fields", "pkg/lifecycle.State", 14, record},
	{"fields", "pkg/metadata.Container", 22, document},
	{"fields", "pkg/metadata.Task", 15, document},
	{"fields", "pkg/service.State", 19, record},
	{"fields", "pkg/service.Task", 15, record},
	{"fields", "pkg/taskdef.Container", 35, document},
	{"fields", "pkg/taskdef.Task", 13, document},
	{"fields", "pkg/taskdef.Volume", 13, document},
	{"fields", "test/e2e.ctr", 13, document},
	{"fields", "test/e2e.task", 18, document},
	{"fields", "test/vm.container", 13, document},
	{"interface methods", "internal/enginetest.Control", 9, "what other users and programs do to Podman, implemented for the fake and the real one"},
	{"interface methods", "internal/enginetest.Containers", 10, "part of enginetest.Podman"},
	{"interface methods", "internal/enginetest.Podman", 31, "what the conformance suite holds the fake and the real Podman to"},
	{"interface methods", "pkg/api.Backend", 7, "one method for each request about tasks that every server answers"},
	{"interface methods", "pkg/api.ServiceKeeper", 7, "one method for each request about services"},
	{"interface methods", "pkg/state.FS", 7, "the file system calls that the store makes; a simulated disk fails each of them"},
	{"lines", "internal/sim.player.happen", 61, "a switch with one case for each command of a script"},
	{"methods", "internal/agent.world", 20, "the vocabulary that the tests with a real Podman are written in"},
	{"methods", "internal/enginetest.Fake", 90, "the counterpart of libpod.Client, with a method for each call and each thing that tests do to it"},
	{"methods", "internal/enginetest.task", 33, "the vocabulary that more than 100 rules are written in"},
	{"methods", "pkg/lifecycle.State", 22, "one method for each question that owners and users ask about a task"},
	{"methods", "pkg/taskdef.Task", 16, "one method for each question that others ask about a task definition"},
	{"methods", "test/e2e.box", 99, "the vocabulary that the tests of the program are written in"},
	{"methods", "test/e2e.node", 21, "the vocabulary that the tests of a Kubernetes node are written in"},
	{"methods", "test/e2e.units", 21, "the vocabulary that the tests of systemd units are written in"},
	{"parameters", "internal/kubeserve.Server.exec", 6, "the signature of a handler of virtual-kubelet"},
	{"parameters", "pkg/admission.checkOrder", 6, "a property of two queues: the one before and the one after a decision"},
	{"parameters", "pkg/service.New", 6, "the members of a service that its creator chooses"},
	{"parameters", "pkg/timeline.LaneOf", 6, "a lane has two ends, each with a state and a time"},
	{"parameters", "pkg/timeline.picture.text", 6, "the attributes of an SVG text element"},
}
