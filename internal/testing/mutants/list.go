package mutants

// The tests that must detect a fault. The model is the exhaustive one in its small
// cases, with random walks.
var (
	model   = check{pkg: "internal/testing/sim", tests: "^TestModel$", first: "^TestKnownSeeds$"}
	scripts = check{pkg: "internal/testing/sim", tests: "^TestScripts$"}
	rules   = check{pkg: "pkg/lifecycle", tests: "^Test"}
	queue   = check{pkg: "pkg/admission", tests: "^Test", flag: noFiles}
	copies  = check{pkg: "pkg/service", tests: "^Test", flag: noFiles}
	power   = check{pkg: "internal/state/statetest", tests: "^TestStoreSurvivesPowerLossAnywhere$"}
	saves   = check{pkg: "internal/engine/decide/loop", tests: "^TestItSavesThenShowsThenActsThenPublishes$"}
	pulls   = check{pkg: "internal/engine/act/imagestore", tests: "^Test"}
	cached  = check{pkg: "internal/engine/facts/record", tests: "^(TestTheCacheHasWhatIsRecorded|TestTheCacheReadsWhatIsNewOnly)$"}
	store   = check{pkg: "internal/state", tests: "Record|Sync|Doubt"}

	instances = check{pkg: "internal/aws/instance", tests: "^TestStatesAreToldInOrderWhateverHappens$"}
)

// noFiles keeps rapid from writing failures into the source tree.
const noFiles = "-rapid.nofailfile"

// cases are those cases of the model whose names match an expression. All of them would
// detect the fault too, after longer.
func cases(names string) check {
	return check{pkg: "internal/testing/sim", tests: "^TestModel$/" + names, first: "^TestKnownSeeds$"}
}

// logs are tests of a package that takes part in the delivery of output.
func logs(pkg, tests string) check { return check{pkg: pkg, tests: "^(" + tests + ")$"} }

// sessions are tests of the sessions of execute-command, frames those of what is said on them.
func sessions(tests string) check {
	return check{pkg: "internal/aws/ecsexec", tests: "^(" + tests + ")$"}
}

func frames(tests string) check {
	return check{pkg: "internal/aws/datachannel", tests: "^(" + tests + ")$", flag: noFiles}
}

// awsCalls are tests of the API of Amazon ECS.
func awsCalls(tests string) check {
	return check{pkg: "internal/aws/awsapi", tests: "^(" + tests + ")$"}
}

// podman are tests of the client of Podman.
func podman(tests string) check {
	return check{pkg: "internal/host/libpod", tests: "^(" + tests + ")$"}
}

// engine is tests of a package below internal/engine.
func engine(pkg, tests string) check {
	return check{pkg: "internal/engine/" + pkg, tests: "^(" + tests + ")$"}
}

// kube returns tests of a package below internal/kube.
func kube(pkg, tests string) check {
	return check{pkg: "internal/kube/" + pkg, tests: "^(" + tests + ")$"}
}

// mutants has one for each property. The place may be in any package below the
// directory.
var mutants = []mutant{
	// What is believed.
	{"what is in doubt is inspected", "pkg/lifecycle nextOp", never, "Stale", "", model},
	{"saved status is not believed after a restart", "pkg/lifecycle foldRestarted", skip, "Ended Stale", "", cases("crashes")},
	{"operations in progress are not saved", "pkg/lifecycle Durable", skip, "Unconfirmed", "", model},
	{"late replies are ignored", "pkg/lifecycle foldFinished", always, "Containers ID", "", model},
	{"an event leads to an inspection", "pkg/lifecycle foldHint", skip, "Outdated", "", model},
	{"a new infra container means a new network", "pkg/lifecycle foldInfra", always, "Equal", "", cases("cut_off")},
	{"a vanished container has ended", "pkg/lifecycle observe", never, "ran Absent", "", cases("vanish")},
	{"an exit without a start is none", "pkg/lifecycle observe", never, "Exited IsZero", "", rules},

	// Shares of the CPU.
	{"a container without cpu has the smallest share", "pkg/cgroups Shares", value, "max units minShares", "units", check{pkg: "pkg/cgroups", tests: "^TestShares$"}},
	{"an update of the limits keeps implicit shares", "pkg/lifecycle foldLimits", skip, "ImplicitShares", "", rules},

	// One operation at a time, and in order.
	{"a check that Podman does not run is no failure", "pkg/lifecycle foldProbe", value, "Streak Overruns -", "h.Streak", rules},
	{"one operation at a time", "pkg/lifecycle planContainer", never, "Busy", "", model},
	{"what is unwanted is canceled", "pkg/lifecycle planCancel", always, "unwanted", "", model},
	{"containers start after their dependencies", "pkg/lifecycle nextUp", never, "a satisfied", "", model},
	{"containers stop before their dependencies", "pkg/lifecycle nextOp", never, "Dependants", "", model},
	{"all digests are known before a pull", "pkg/lifecycle nextUp", never, "allResolved", "", model},
	{"nothing is pulled before admission", "pkg/lifecycle nextUp", never, "admitted", "", model},
	{"what takes volumes is created after what has them", "pkg/lifecycle nextUp", never, "awaitsVolumes", "", rules},
	{"the sandbox stops after the containers", "pkg/lifecycle nextSandbox", never, "allLetGo", "", model},
	{"what was created in a discarded pod is looked for", "pkg/lifecycle foldSandboxFailure", skip, "doubtCreated", "", rules},
	{"a pod is made sure of before its infra container is started again", "pkg/lifecycle foldSandboxFailure", skip, "Made false", "", rules},
	{"SUCCESS means exit code 0", "pkg/lifecycle condition", never, "ExitCode 0", "", model},
	{"a container that never starts is given up", "pkg/lifecycle condition", never, "late IsZero", "", scripts},
	{"a start timeout wakes the task", "pkg/lifecycle Wake", skip, "startDeadline", "", scripts},
	{"a retry wakes the task", "pkg/lifecycle Wake", skip, "c Retry NotUntil", "", model},

	// Ends, stops and removals.
	{"only essential containers end the task", "pkg/lifecycle essential", always, "Essential", "", model},
	{"exit codes are recorded", "pkg/lifecycle endRun", skip, "HasExit ExitCode", "", model},
	{"a removal is given up after some attempts", "pkg/lifecycle foldSandboxFailure", never, "Persist removalAttempts", "", rules},
	{"a removal is more than a stop", "pkg/lifecycle lowerGoal", value, "g", "min(g, Down)", model},
	{"force hurries", "pkg/lifecycle foldGoal", skip, "Force true", "", model},
	{"the first reason of a stop stays", "pkg/lifecycle lowerGoal", always, "Goal Up", "", model},

	// Protection.
	{"a protected task is spared", "pkg/lifecycle fold", always, "Spare ProtectedUntil", "", rules},
	{"a protection ends", "pkg/lifecycle Step", never, "Goal ProtectedUntil", "", rules},
	{"the end of a protection wakes the task", "pkg/lifecycle Wake", skip, "ProtectedUntil", "", rules},
	{"a service stops no protected copy", "pkg/service Task.spared", value, "Failed Before", "false", copies},

	// Faults.
	{"a fault ends after its time", "pkg/lifecycle endFaults", never, "Until Before", "", rules},
	{"the end of a fault wakes the task", "pkg/lifecycle Wake", skip, "f Until", "", rules},
	{"no fault outlives its owner", "pkg/lifecycle fold", skip, "setFaults nil", "", rules},
	{"faults go before the next owner takes requests", "internal/engine/act/endpoint Faults.keepOnce", never, "all Dirty", "", engine("act/endpoint", "TestTheNextOwnerRemovesFaults")},
	{"an owner that ends removes its faults", "internal/engine/act/endpoint Faults.Close", skip, "set nil", "", engine("act/endpoint", "TestAnOwnerThatEndsRemovesItsFaults")},
	{"only a task that allows it has faults", "internal/engine/act/endpoint Faults.Refused", always, "FaultInjection", "", engine("act/endpoint", "TestTasksThatCannotHaveFaults")},

	// Restarts, health and watches.
	{"restarts follow the policy", "pkg/lifecycle endRun", always, "Goal whyNot", "", model},
	{"a short run is not restarted", "pkg/lifecycle restartVerdict", always, "ran AttemptPeriod", "", model},
	{"restarts have a maximum", "pkg/lifecycle restartVerdict", never, "restarts MaxCount", "", cases("restarts")},
	{"ignored exit codes are not restarted", "pkg/lifecycle restartVerdict", never, "Ignores", "", model},
	{"failures in the start period do not count", "pkg/lifecycle countFailure", never, "grace", "", rules},
	{"unhealthy after the configured failures", "pkg/lifecycle countFailure", value, "failures", "check.failures + 1", rules},
	{"an unhealthy container that is to be restarted is stopped", "pkg/lifecycle nextUp", never, "toRestart", "", cases("unhealthy")},
	{"a container is stopped for its health only on request", "pkg/lifecycle failedHealth", value, "ActionRestart", "check.Action", model},
	{"the exit code of an unhealthy container does not count", "pkg/lifecycle endRun", skip, "IgnoredExitCodes nil", "", cases("unhealthy")},
	{"unhealthy tasks stop only on request", "pkg/lifecycle settleWatches", always, "StopWhenUnhealthy", "", rules},

	// Checks, hooks and ends of Pods.
	{"the startup check comes before the others", "pkg/lifecycle beginChecks", never, "Startup HealthHealthy", "", cases("startup")},
	{"a start counts once its startup check has passed", "pkg/lifecycle condition", always, "up", "", cases("startup")},
	{"a preStop hook comes before the stop signal", "pkg/lifecycle stopOp", always, "PreStop nil", "", cases("hooks|preStop")},
	{"a preStop hook takes from the stop timeout", "pkg/lifecycle stopGrace", always, "StopSince", "", scripts},
	{"a failed postStart hook stops the container", "pkg/lifecycle foldHook", skip, "Failed why", "", scripts},
	{"a kill does not wait for a hook", "pkg/lifecycle cancelHook", value, "Force", "false", cases("hooks|preStop")},
	{"a log router gets the last lines before its stop", "pkg/lifecycle stopOp", never, "flushes", "", cases("a_log_router")},
	{"a kill does not wait for a log router", "pkg/lifecycle cancelFlush", value, "Force", "false", cases("a_log_router")},
	{"a log router starts before those that log to it", "pkg/taskdef withRouter", never, "RoutedBy waits", "", logs("pkg/taskdef", "TestARouterStartsFirst")},
	{"a time of a schedule has one run", "internal/engine/run/schedule Decide", never, "ContainsFunc", "", engine("run/schedule", "TestDecide")},
	{"a task stops at its deadline", "pkg/lifecycle settleDeadline", always, "Before", "", cases("deadline")},
	{"a Pod runs until its last container has ended", "pkg/lifecycle awaitsLast", value, "UntilLast ContainsFunc", "false", cases("last")},
	{"the first restart of a Pod does not wait", "pkg/lifecycle restartVerdict", never, "FirstAtOnce quick", "", scripts},

	// Images, and what is reported.
	{"a lost image is pulled again once", "pkg/lifecycle judge", always, "lostImage", "", rules},
	{"a strict pull tolerates no failure", "pkg/lifecycle toleratesImageFailure", always, "PullDefault PullPreferCached", "", model},
	{"no RUNNING while stopping", "pkg/lifecycle State.Status", never, "Goal Up", "", model},
	{"no STOPPED while ports are taken", "pkg/lifecycle State.Status", always, "SandboxStopped", "", model},
	{"a transition is reported once", "pkg/lifecycle recordContainer", skip, "max", "", model},
	{"a step does not change its input", "pkg/lifecycle Step", skip, "clone", "", rules},

	// Output that is sent to a server.
	{"a position moves after an acknowledgement", "internal/logs/logsend/forward Sender.Send", always, "config Ack", "", logs("internal/logs/logsend/forward", "TestOnlyWhatIsAcknowledgedIsDelivered")},
	{"an acknowledgement is that of the batch", "internal/logs/logsend/forward Sender.await", always, "ok ==", "", logs("internal/logs/logsend/forward", "TestTheAcknowledgementOfAnotherBatchIsNone")},
	{"a position moves after an answer without an error", "internal/logs/logsend/awslogs Sender.Send", always, "err == nil", "", logs("internal/logs/logsend/awslogs", "TestFailuresSayWhenToTryAgain")},
	{"an event in parts is delivered with its last part", "internal/logs/logsend/awslogs batch.cut", value, "text n before", "event{e.text[:n], e.time, e.next}", logs("internal/logs/logsend/awslogs", "TestAnEventInPartsIsDeliveredWithItsLastPart")},
	{"what was read is not yet delivered", "internal/engine/act/logdelivery route.acknowledged", value, "sent Next", "logroute.Position{r.reader.Open(), r.reader.Open()}", logs("internal/engine/act/logdelivery", "TestWhatWasReadIsNotDelivered")},
	{"each stream has its own position", "internal/logs/logroute Joiner.cut", never, "other begun", "", logs("internal/logs/logroute", "FuzzReaderGoesOnWhereItStopped")},
	{"a file with two names is not complete", "internal/logs/logfiles Files.withCurrent", never, "SameFile", "", logs("internal/logs/logfiles", "TestRotationLosesNothing")},
	{"the file that is written is read", "internal/logs/logfiles Files.Segments", value, "withCurrent", "all", logs("internal/logs/logfiles", "TestRotationLosesNothing")},
	{"a file is read to its end before the next one", "internal/logs/logfiles Reader.advance", always, "r last", "", logs("internal/logs/logfiles", "TestRotationLosesNothing")},
	{"a full file is rotated at once", "internal/engine/act/logdelivery Delivery.reopen", always, "segment turn ==", "", logs("internal/engine/act/logdelivery", "TestAFullFileIsRotatedAtOnce")},
	{"files are kept until they were sent", "internal/engine/act/logdelivery Delivery.prune", always, "Number delivered", "", logs("internal/engine/act/logdelivery", "TestBacklogIsGivenUpFromItsOldestEnd")},
	{"a definition alone sends nothing", "pkg/taskdef LogConfiguration.Sent", always, "s AWSLogs", "", logs("internal/engine/act/logdelivery", "TestADefinitionAloneSendsNothing")},
	{"with logs=local nothing is sent", "pkg/taskdef LogConfiguration.Sent", never, "LogsAuto LogsRemote", "", logs("internal/engine/act/logdelivery", "TestADefinitionAloneSendsNothing")},
	{"a log router reads secrets from its variables", "internal/engine/facts/taskspec RouterConfig", value, "reference", "secret.ValueFrom", logs("internal/engine/facts/taskspec", "TestARouterHasItsConfigurationAndSecrets")},
	{"a variable that is a secret is not sent", "internal/engine/act/logdelivery withoutSecrets", value, "hidden name", "false", logs("internal/engine/act/logdelivery", "TestSecretsAreNoAttributes")},

	// The queue.
	{"a task is overtaken a limited number of times", "pkg/admission judge", always, "Passed Overtake", "", queue},
	{"no task takes the port that another waits for", "pkg/admission judge", always, "meets", "", queue},
	{"a later task takes nothing that an earlier one lacks", "pkg/admission judge", always, "lost", "", queue},
	{"the budget is not exceeded", "pkg/admission shortages", never, "b cpu", "", queue},
	{"a GPU has one task", "pkg/admission gpuHolder", never, "Held Contains", "", queue},
	{"a task waits for a GPU of its own", "pkg/admission heldGPUs", never, "held Task", "", queue},
	{"the quotas of the host are not exceeded", "pkg/admission quotaShortages", skip, "append short", "", queue},

	// Services.
	{"no more tasks than the maximum", "pkg/service lacking", value, "most Present", "most", copies},
	{"failures delay new tasks", "pkg/service wantTasks", never, "NotUntil", "", copies},
	{"healthy tasks stay until others replace them", "pkg/service stopTasks", always, "least", "", copies},
	{"a failed deployment is rolled back", "pkg/service breakerDue", always, "FailedTasks", "", check{pkg: "pkg/service", tests: "^TestWithoutRollbackAFailedDeploymentStandsStill$"}},
	{"a copy finishes its connections before it stops", "pkg/service effects", never, "drains", "", copies},
	{"a copy that is to stop gets no connections", "pkg/service Task.Healthy", value, "Phase Live HealthyNow", "t.HealthyNow", copies},
	{"a copy in doubt does not become healthy", "pkg/service Task.isHealthy", never, "doubt", "", copies},
	{"a user's stop is no failure", "pkg/service observe", always, "ByUser", "", copies},
	{"one attempt at most has not ended", "pkg/service deploy", skip, "stopAttempt", "", copies},
	{"an attempt returns to the last deployment that was good", "pkg/service RollbackTarget", value, "Completed i", "s.Completed[len(s.Completed)-1]", copies},
	{"an attempt that is given up has not succeeded", "pkg/service completeAttempt", never, "AttemptReturning", "", copies},
	{"the history of a service is bounded", "pkg/service beginAttempt", never, "keptAttempts", "", copies},
	{"a stage waits for its hooks", "pkg/service stageDone", value, "answered", "true", copies},
	{"green has all copies before a connection", "pkg/service State.wants", never, "Green PreScaleUp", "", copies},
	{"a step waits before the next", "pkg/service stepBaked", value, "Before", "false", copies},
	{"a hook that fails ends the attempt", "pkg/service Attempt.refused", never, "HookFailed", "", copies},
	{"an answer that comes too late changes nothing", "pkg/service answer", value, "Number != in", "false", copies},
	{"blue has the connections of a green that dies", "pkg/service State.groups", never, "> blue green", "", copies},
	{"the connections go back before green stops", "pkg/service shiftBack", skip, "Weight TestWeight", "", copies},
	{"a rollback by hand wins", "pkg/service fold", skip, "prefer", "", copies},
	{"a pause is answered once", "pkg/service ContinueAttempt", never, "HookAwaiting", "", check{pkg: "internal/aws/awsapi", tests: "^TestAPausedDeploymentIsContinued$"}},
	{"a set has its weight of the connections", "internal/forward choose", skip, "credit sum", "", engine("run/services", "TestConnectionsAreSharedByWeight")},
	{"a hook without an answer on this host is refused", "internal/engine/run/hooks answer", never, "ok", "", engine("run/hooks", "TestResolve")},
	{"only a known answer of a hook counts", "internal/engine/run/hooks ParseAnswer", value, "known status", "true", engine("run/hooks", "TestParseAnswer")},
	{"a hook runs once at a time", "internal/engine/run/services calls.start", value, "make 1", "make(chan struct{}, 2)", engine("run/services", "TestAHookRunsOnceAtATime")},
	{"a revision is known while something names it", "pkg/service pruneRevisions", value, "named Deployment", "true", copies},

	// Sessions of execute-command.
	{"only its token opens a session", "internal/aws/ecsexec Sessions.use", never, "ConstantTimeCompare", "", sessions("TestWhoMayConnect")},
	{"a token opens a session once", "internal/aws/ecsexec Sessions.use", skip, "until Time", "", sessions("TestWhoMayConnect")},
	{"a token is good for a minute", "internal/aws/ecsexec entry.renew", value, "Add away", "time.Now().Add(time.Hour)", sessions("TestWhoMayConnect")},
	{"sessions are bounded", "internal/aws/ecsexec Sessions.Open", never, "Most", "", sessions("TestNotTooManySessions")},
	{"a client that stays away has its program ended", "internal/aws/ecsexec session.lost", never, "told", "", sessions("TestAClientThatStaysAway")},
	{"a record that is another file is read again", "internal/engine/facts/record Cache.get", always, "ok entry identity", "", cached},
	{"a record that was written just now is read again", "internal/engine/facts/record Cache.get", always, "Unique", "", cached},
	{"what is off is as what was never sent", "internal/aws/awsapi sameJSON", never, "disabled b", "", awsCalls("TestUpdateDeploysOnlyForAReason")},
	{"only tasks of Fargate have its members", "internal/aws/awsapi onFargate", never, "launch fargate", "", awsCalls("TestTaskHasTheMembersOfItsLaunchType")},
	{"events that clients put are bounded", "internal/aws/awsapi/logstreams logs.putEvents", never, "size maxPutSize", "", awsCalls("TestWhatClientsPutIsBounded")},
	{"connections of a forwarded port are bounded", "internal/aws/portforward Forwarder.accept", value, "make MaxConnections", "make(chan struct{}, 2*MaxConnections)", check{pkg: "internal/aws/portforward", tests: "^TestClientsAreLimited$"}},
	{"output waits for a client", "internal/aws/datachannel Channel.Free", value, "max window waiting", "window", frames("TestOutputWaitsForAReaderThatStops")},
	{"what the client had before is not sent for ever", "internal/aws/datachannel Channel.Pong", skip, "DeleteFunc", "", frames("TestNothingIsLostOrDoubled")},
	{"what is typed is taken once", "internal/aws/datachannel inputs.again", never, "id ID", "", frames("TestNumbersOutOfOrder")},
	{"of two messages with one number both are taken", "internal/aws/datachannel inputs.again", always, "id ID", "", frames("TestNumbersAreUsedTwice")},
	{"a missing message is waited for", "internal/aws/datachannel inputs.pop", never, "missing twice", "", frames("TestNumbersOutOfOrder")},
	{"a payload has its digest", "internal/aws/datachannel Parse", never, "Equal atDigest", "", frames("TestFramesThatLieAreRefused")},

	// Labels that anyone can write into an image.
	{"an image does not turn on auto-update", "internal/host/libpod shield", skip, "noAutoUpdate", "", podman("TestReservedLabelsOfAnImageAreNotTheContainers")},
	{"an image does not set labels of podtask", "internal/host/libpod CreateContainer", skip, "shield", "", podman("TestReservedLabelsOfAnImageAreNotTheContainers")},
	{"the label of a task does not make a container the task's", "internal/host/libpod Client.List", skip, "DeleteFunc stray", "", podman("TestContainersOutsideOfPodsAreNotTheTasks")},

	{"a removal on a full disk does not wait", "pkg/lifecycle foldSandboxFailure", never, "releaseAttempts", "", engine("run/owner", "TestFullDiskDoesNotDelayARemoval")},

	{"credentials of a task that was not created are removed", "internal/engine/run/owner Creator.keepAndRecord", omit, "forgetLogins", "", engine("run/owner", "TestCredentialsOfATaskThatWasNotCreatedAreRemoved")},
	{"credentials without a record are found", "internal/engine/run/cleanup Orphans.removeOwn", omit, "RemoveSecrets", "", engine("run/owner", "TestSweepRemovesCredentialsWithoutARecord")},

	// A service that was killed.
	{"no error is final once after a call that was cut off", "internal/engine/run/owner run.reconsider", value, "cut doubted", "false", engine("act/effects", "TestAContainerWhoseInitializationWasInterruptedIsMadeAgain")},
	{"what fails in an outage is no attempt", "pkg/lifecycle Retry.excuse", always, "after CutOff", "", rules},
	{"an outage that lasts is a failure", "pkg/lifecycle Retry.excuse", never, "AwaySince OutageLimit", "", rules},
	{"an answer ends an outage", "pkg/lifecycle noteAnswer", never, "asksPodman", "", rules},
	{"files in the way of a removal are removed", "internal/host/libpod storage.clear", skip, "RemoveAll", "", podman("TestRemovalEmptiesTheMountPointInItsWay")},

	// A service that hangs.
	{"a ping without an answer ends the calls", "internal/host/libpod pulse.begin", skip, "miss", "", podman("TestAServiceThatHangsIsNoticed")},
	{"a slow service is not ended", "internal/host/libpod pulse.begin", value, "pulseLimit", "pulseLimit / 2", podman("TestAServiceThatAnswersPingsIsLeftAlone")},

	{"an outage of the service is reported", "internal/host/libpod pulse.outageSince", always, "IsZero outageAfter", "", podman("TestOutageLastsWhileCallsWaitForAnAnswer")},

	// The store.
	{"records are synced", "internal/state writeTemp", skip, "Sync", "", power},
	{"the directory is synced", "internal/state settle", omit, "SyncDir", "", power},
	{"records are replaced by a rename", "internal/state put", value, "tempPath", "s.path(key)", power},
	{"damaged records are refused", "internal/state decode", never, "sumPrefix", "", store},

	// What an engine does with decisions.
	{"nothing is done before it is saved", "internal/engine/decide/loop save", omit, "Save", "", saves},
	{"a full disk stops what starts", "internal/engine/decide/loop turn", never, "saved Lowers", "", engine("run/owner", "TestFullDiskStopsNewWorkAndLosesNothing")},
	{"a full disk stops new work", "internal run.Save", value, "transient Mark", "nil", engine("run/owner", "TestFullDiskStopsNewWorkAndLosesNothing")},
	{"events are published once", "internal Owner.begin", value, "LastPublished", "0", engine("run/owner", "TestEventsArePublishedOnceWhoeverOwnsTheTask")},
	{"a removal deletes the record", "internal run.Finish", skip, "Erase", "", engine("run/owner", "TestRemovalForgetsTheTask")},
	{"orphans are removed", "internal sweepOne", always, "ErrNotExist", "", engine("run/cleanup", "TestSweepRemovesPodsWithoutATask")},
	{"secrets are removed with the pod's stop", "internal/engine/act/tasksecrets Remove", omit, "RemoveSecrets", "", engine("act/tasksecrets", "TestSecretsLiveAsLongAsAContainerMayStart")},
	{"a name has one task", "internal/engine/run/owner Creator.record", never, "StatusStopped", "", engine("run/owner", "TestNames")},
	{"a refused removal is tried again", "internal/engine/act/effects RetryRemoval", always, "As Other", "", engine("act/effects", "TestRemovalsThatPodmanRefusesAreTriedAgain")},
	{"the endpoint ends with its task", "internal/engine/act/endpoint shut", omit, "Close", "", engine("act/endpoint", "TestContainersReachTheirEndpoint")},
	{"limits that cannot be applied are refused", "internal/engine/act/preflight Check", never, "missing Enforce", "", engine("act/preflight", "TestCheckSaysWhatThisHostCannotDo")},
	{"limits are read back from the kernel", "internal/engine/act/limits NotApplied", always, "bad Process", "", engine("act/limits", "TestLimitsOfAContainerAreReadBack")},
	{"components share a connection to Podman", "internal/engine/facts/conn Lazy.Get", always, "podman nil", "", engine("facts/conn", "TestPodmanIsConnectedOnce")},
	{"pulls at a time are limited", "internal pullSlot", value, "PullsAtOnce", "100", pulls},
	{"a locked run refuses another definition", "internal/define/lockfile Apply", never, "Definition Digest digest", "", check{pkg: "internal/define/lockfile", tests: "^TestApplyPinsOrShowsBoth$"}},
	{"an image that is not for this platform is no lock", "internal/define/lockfile Apply", never, "has want", "", check{pkg: "internal/define/lockfile", tests: "^TestApplyPinsOrShowsBoth$"}},
	{"the volumes of a test are its own", "internal/cli/tasktest change", never, "VolumeShared KeepVolumes", "", check{pkg: "internal/cli/tasktest", tests: "^TestTheTaskOfATestIsFresh$"}},
	{"only images that podtask pulled are pruned", "internal endPull", always, "before", "", pulls},

	// A node of Kubernetes.
	{"a Pod runs with all that protects it or not at all", "internal/kube/kubepods unknownMembers", never, "protective", "", kube("kubepods", "TestMembersThatMayProtectAPod")},
	{"unsafe sysctls are forbidden", "internal/kube/podadmission forbiddenSysctl", never, "safeSysctls allowed", "", kube("podadmission", "TestUnsafeSysctlsAreForbidden")},
	{"a host without limits keeps no Pod away", "internal/kube/kubenode pressures", always, "ConditionNoLimits", "", kube("kubenode", "TestNodeSaysThatLimitsCannotBeApplied")},
	{"changed resources are applied after each start", "internal/engine/decide/driver Task.takeLimits", skip, "Running StartedAt", "", engine("decide/driver", "TestLimitsAreAppliedOncePerChange")},
	{"memory in use is not taken away", "internal/engine/act/limits CheckMemory", never, "was used", "", engine("act/limits", "TestMemoryInUseIsNotTakenAway")},
	{"a refused resize is not asked for again", "internal/kube/kubepods podWorker.awaitResize", always, "id tried", "", kube("kubepods", "TestARefusedResizeIsNotRepeatedByItself")},
	{"a payload is acknowledged before it is recorded", "internal/aws/instance node.add", omit, "records put", "", instances},
	{"a refused state is dropped", "internal/aws/instance taskWorker.send", always, "code err \"InvalidParameterException\"", "", instances},
}
