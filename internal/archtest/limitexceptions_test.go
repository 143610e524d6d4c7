package archtest

// Reasons that several exceptions have.
const (
	debt           = "debt: it has grown so and is to be divided"
	document       = "a document: it has the members that the format has"
	podmanDocument = "a document of Podman's API, with the members that podtask uses"
	record         = "a saved record: its members are what must survive a crash"
)

// limitExceptions are the places that may be beyond a limit, each with its reason.
var limitExceptions = []exception{
	{"fields", "cmd/podtask.plan", 18, document},
	{"fields", "cmd/podtask.planContainer", 14, document},
	{"fields", "cmd/podtask.request", 14, debt},
	{"fields", "cmd/podtask.row", 15, document},
	{"fields", "internal/agent.Agent", 29, "the composition root has one field for each component"},
	{"fields", "internal/enginesim.world", 16, debt},
	{"fields", "internal/sim.World", 15, debt},
	{"fields", "pkg/api.Container", 28, document},
	{"fields", "pkg/api.Service", 16, document},
	{"fields", "pkg/api.Task", 33, document},
	{"fields", "pkg/convert.container", 25, document},
	{"fields", "pkg/libpod.ContainerSpec", 45, podmanDocument},
	{"fields", "pkg/libpod.Host", 15, podmanDocument},
	{"fields", "pkg/libpod.Observed", 15, podmanDocument},
	{"fields", "pkg/libpod.PodSpec", 16, podmanDocument},
	{"fields", "pkg/lifecycle.Container", 33, record},
	{"fields", "pkg/lifecycle.Result", 13, debt},
	{"fields", "pkg/lifecycle.Sandbox", 16, record},
	{"fields", "pkg/lifecycle.State", 13, record},
	{"fields", "pkg/metadata.Container", 22, document},
	{"fields", "pkg/metadata.Task", 14, document},
	{"fields", "pkg/service.State", 16, record},
	{"fields", "pkg/service.Task", 13, record},
	{"fields", "pkg/taskdef.Container", 34, document},
	{"fields", "test/e2e.ctr", 13, document},
	{"fields", "test/e2e.task", 16, document},
	{"fields", "test/vm.container", 13, document},
	{"interface methods", "internal/connect.Task", 6, debt},
	{"interface methods", "internal/enginetest.Control", 8, "what other users and programs do to Podman, implemented for the fake and the real one"},
	{"interface methods", "internal/enginetest.Containers", 9, "part of enginetest.Podman"},
	{"interface methods", "internal/enginetest.Podman", 30, "what the conformance suite holds the fake and the real Podman to"},
	{"interface methods", "pkg/api.Backend", 7, debt},
	{"interface methods", "pkg/api.ServiceKeeper", 7, debt},
	{"interface methods", "pkg/state.FS", 7, "the file system calls that the store makes; a simulated disk fails each of them"},
	{"lines", "internal/sim.player.happen", 61, debt},
	{"methods", "internal/agent.world", 20, debt},
	{"methods", "internal/enginesim.world", 53, debt},
	{"methods", "internal/enginetest.Fake", 81, "the counterpart of libpod.Client, with a method for each call and each thing that tests do to it"},
	{"methods", "internal/enginetest.task", 32, "the vocabulary that more than 100 rules are written in"},
	{"methods", "internal/sim.World", 66, debt},
	{"methods", "pkg/api.Client", 24, debt},
	{"methods", "pkg/api.Server", 18, debt},
	{"methods", "pkg/lifecycle.State", 18, "one method for each question that owners and users ask about a task"},
	{"methods", "pkg/service.State", 36, debt},
	{"methods", "pkg/service.world", 21, debt},
	{"methods", "pkg/taskdef.Task", 22, debt},
	{"methods", "pkg/taskdef.cursor", 73, debt},
	{"methods", "pkg/taskdef.rules", 50, debt},
	{"methods", "test/e2e.box", 96, debt},
	{"methods", "test/e2e.units", 21, debt},
	{"parameters", "pkg/admission.checkOrder", 6, debt},
	{"parameters", "pkg/service.New", 6, debt},
	{"parameters", "pkg/timeline.LaneOf", 6, debt},
	{"parameters", "pkg/timeline.picture.text", 6, debt},
}
