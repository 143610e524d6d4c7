package pod

const (
	ownRules   = "a service of podtask has rules of its own: flags of `podtask service create` change them"
	noSelector = "the Pod of the document is the one that is meant"
	noNetwork  = "there is no cluster network: publish ports with `hostPort`, or give a service a name with `--name-as`"
	byPods     = "the copies of `podtask service create`, where no `--count` is given; `run` runs one Pod, with a warning"
	noClaims   = "its storage is given by `--map-volume NAME=PATH`"
	oneIndex   = "there is one index"
	noHistory  = "podtask keeps no earlier versions of the document"
)

// controllerRules treat every member of the documents that hold a Pod, and of those beside it.
var controllerRules = []rule{
	{"PodTemplate.apiVersion", honored, "`v1`", nil},
	{"PodTemplate.kind", honored, "", nil},
	{"PodTemplate.metadata", honored, "", nil},
	{"PodTemplate.template", honored, "", nil},

	{"Deployment.apiVersion", honored, "`apps/v1`", nil},
	{"Deployment.kind", honored, "", nil},
	{"Deployment.metadata", honored, "", nil},
	{"Deployment.spec", honored, "", nil},
	{"Deployment.status", ignored, running, nil},
	{"DeploymentSpec.minReadySeconds", warned, ownRules, []string{"0"}},
	{"DeploymentSpec.paused", warned, ownRules, nil},
	{"DeploymentSpec.progressDeadlineSeconds", warned, ownRules, []string{"600"}},
	{"DeploymentSpec.replicas", honored, byPods, nil},
	{"DeploymentSpec.revisionHistoryLimit", ignored, noHistory, nil},
	{"DeploymentSpec.selector", ignored, noSelector, nil},
	{"DeploymentSpec.strategy", honored, "", nil},
	{"DeploymentSpec.template", honored, "", nil},
	{"DeploymentStrategy.rollingUpdate", honored, "", nil},
	{"DeploymentStrategy.type", warned, ownRules, []string{"RollingUpdate"}},
	{"RollingUpdateDeployment.maxSurge", warned, ownRules, []string{"25%"}},
	{"RollingUpdateDeployment.maxUnavailable", warned, ownRules, []string{"25%"}},

	{"ReplicaSet.apiVersion", honored, "`apps/v1`", nil},
	{"ReplicaSet.kind", honored, "", nil},
	{"ReplicaSet.metadata", honored, "", nil},
	{"ReplicaSet.spec", honored, "", nil},
	{"ReplicaSet.status", ignored, running, nil},
	{"ReplicaSetSpec.minReadySeconds", warned, ownRules, []string{"0"}},
	{"ReplicaSetSpec.replicas", honored, byPods, nil},
	{"ReplicaSetSpec.selector", ignored, noSelector, nil},
	{"ReplicaSetSpec.template", honored, "", nil},

	{"ReplicationController.apiVersion", honored, "`v1`", nil},
	{"ReplicationController.kind", honored, "", nil},
	{"ReplicationController.metadata", honored, "", nil},
	{"ReplicationController.spec", honored, "", nil},
	{"ReplicationController.status", ignored, running, nil},
	{"ReplicationControllerSpec.minReadySeconds", warned, ownRules, []string{"0"}},
	{"ReplicationControllerSpec.replicas", honored, byPods, nil},
	{"ReplicationControllerSpec.selector", ignored, noSelector, nil},
	{"ReplicationControllerSpec.template", honored, "", nil},

	{"StatefulSet.apiVersion", honored, "`apps/v1`", nil},
	{"StatefulSet.kind", honored, "", nil},
	{"StatefulSet.metadata", honored, "", nil},
	{"StatefulSet.spec", honored, "", nil},
	{"StatefulSet.status", ignored, running, nil},
	{"StatefulSetSpec.minReadySeconds", warned, ownRules, []string{"0"}},
	{"StatefulSetSpec.ordinals", honored, "", nil},
	{"StatefulSetSpec.persistentVolumeClaimRetentionPolicy", ignored, "podtask removes no storage that it was given", nil},
	{"StatefulSetSpec.podManagementPolicy", honored, byPods, nil},
	{"StatefulSetSpec.replicas", honored, byPods, nil},
	{"StatefulSetSpec.revisionHistoryLimit", ignored, noHistory, nil},
	{"StatefulSetSpec.selector", ignored, noSelector, nil},
	{"StatefulSetSpec.serviceName", honored, "the Pod itself finds `NAME-0.SERVICE` and its full name; other tasks do not: there is no cluster DNS", nil},
	{"StatefulSetSpec.template", honored, "the Pods are `NAME-0` and so on, also their host names, with the labels `apps.kubernetes.io/pod-index` and `statefulset.kubernetes.io/pod-name`", nil},
	{"StatefulSetSpec.updateStrategy", honored, "", nil},
	{"StatefulSetSpec.volumeClaimTemplates", needed, "`--map-volume NAME=PATH`, by the name of the claim with that of the Pod: `data-mysql-0`. That of the first Pod may be left out: `data`", nil},
	{"StatefulSetOrdinals.start", honored, "", nil},
	{"StatefulSetUpdateStrategy.rollingUpdate", honored, "", nil},
	{"StatefulSetUpdateStrategy.type", warned, ownRules, []string{"RollingUpdate"}},
	{"RollingUpdateStatefulSetStrategy.maxUnavailable", warned, ownRules, []string{"1"}},
	{"RollingUpdateStatefulSetStrategy.partition", warned, ownRules, []string{"0"}},

	{"DaemonSet.apiVersion", honored, "`apps/v1`", nil},
	{"DaemonSet.kind", honored, "", nil},
	{"DaemonSet.metadata", honored, "", nil},
	{"DaemonSet.spec", honored, "", nil},
	{"DaemonSet.status", ignored, running, nil},
	{"DaemonSetSpec.minReadySeconds", warned, ownRules, []string{"0"}},
	{"DaemonSetSpec.revisionHistoryLimit", ignored, noHistory, nil},
	{"DaemonSetSpec.selector", ignored, noSelector, nil},
	{"DaemonSetSpec.template", honored, "", nil},
	{"DaemonSetSpec.updateStrategy", honored, "", nil},
	{"DaemonSetUpdateStrategy.rollingUpdate", honored, "", nil},
	{"DaemonSetUpdateStrategy.type", warned, ownRules, []string{"RollingUpdate"}},
	{"RollingUpdateDaemonSet.maxSurge", warned, ownRules, []string{"0"}},
	{"RollingUpdateDaemonSet.maxUnavailable", warned, ownRules, []string{"1"}},

	{"Job.apiVersion", honored, "`batch/v1`", nil},
	{"Job.kind", honored, "", nil},
	{"Job.metadata", honored, "", nil},
	{"Job.spec", honored, "", nil},
	{"Job.status", ignored, running, nil},
	{"JobSpec.activeDeadlineSeconds", honored, "the task is stopped and fails with `DeadlineExceeded`", nil},
	{"JobSpec.backoffLimit", honored, "one try more than that, default 6; with `restartPolicy: Never` too, where the Pod has one container beside init containers: a failed container is started again. Counted for each container", nil},
	{"JobSpec.backoffLimitPerIndex", honored, oneIndex + ": as `backoffLimit`", nil},
	{"JobSpec.completionMode", honored, "`Indexed`: the host name is `NAME-0`, and `JOB_COMPLETION_INDEX` is 0", nil},
	{"JobSpec.completions", honored, "`1`; others are refused: run the Pod as often, with `--env JOB_COMPLETION_INDEX=INDEX` where it has an index", nil},
	{"JobSpec.managedBy", warned, "podtask runs the Job itself", []string{"kubernetes.io/job-controller"}},
	{"JobSpec.manualSelector", ignored, noSelector, nil},
	{"JobSpec.maxFailedIndexes", ignored, oneIndex, nil},
	{"JobSpec.parallelism", honored, "at most one Pod runs: `0`, and more than 1 without `completions`, are refused", nil},
	{"JobSpec.podFailurePolicy", refused, "the Pod would be tried again, or not, where the policy says otherwise", nil},
	{"JobSpec.podReplacementPolicy", ignored, "a try begins when the one before it has ended", nil},
	{"JobSpec.scheduling", warned, oneHost, nil},
	{"JobSpec.selector", ignored, noSelector, nil},
	{"JobSpec.successPolicy", refused, "there is one Pod, and it decides: it is for Jobs of several indexes", nil},
	{"JobSpec.suspend", refused, "a Job that is suspended starts no Pods", nil},
	{"JobSpec.template", honored, "with `restartPolicy: OnFailure` or `Never`", nil},
	{"JobSpec.ttlSecondsAfterFinished", warned, "`podtask rm` or `podtask gc` removes the task; `run --rm` does when it has ended", nil},

	{"CronJob.apiVersion", honored, "`batch/v1`", nil},
	{"CronJob.kind", honored, "", nil},
	{"CronJob.metadata", honored, "", nil},
	{"CronJob.spec", honored, "", nil},
	{"CronJob.status", ignored, running, nil},
	{"CronJobSpec.concurrencyPolicy", honored, "by `podtask schedule create`", nil},
	{"CronJobSpec.failedJobsHistoryLimit", warned, "`podtask gc` removes tasks by their age", []string{"1"}},
	{"CronJobSpec.jobTemplate", honored, "", nil},
	{"CronJobSpec.schedule", honored, "by `podtask schedule create`; `run` runs the Pod once, now", nil},
	{"CronJobSpec.startingDeadlineSeconds", honored, "by `podtask schedule create`", nil},
	{"CronJobSpec.successfulJobsHistoryLimit", warned, "`podtask gc` removes tasks by their age", []string{"3"}},
	{"CronJobSpec.suspend", honored, "by `podtask schedule create`", nil},
	{"CronJobSpec.timeZone", honored, "by `podtask schedule create`", nil},
	{"JobTemplateSpec.metadata", ignored, "there is no object of the Job", nil},
	{"JobTemplateSpec.spec", honored, "", nil},

	{"PersistentVolumeClaim.apiVersion", honored, "`v1`", nil},
	{"PersistentVolumeClaim.kind", honored, "", nil},
	{"PersistentVolumeClaim.metadata", honored, "", nil},
	{"PersistentVolumeClaim.spec", warned, noClaims, nil},
	{"PersistentVolumeClaim.status", ignored, running, nil},

	{"Service.apiVersion", honored, "`v1`", nil},
	{"Service.kind", honored, "", nil},
	{"Service.metadata", honored, "", nil},
	{"Service.spec", honored, "a warning says what the Service does not do", nil},
	{"Service.status", ignored, running, nil},
	{"ServiceSpec.allocateLoadBalancerNodePorts", ignored, noNetwork, nil},
	{"ServiceSpec.clusterIP", ignored, noNetwork, nil},
	{"ServiceSpec.clusterIPs", ignored, noNetwork, nil},
	{"ServiceSpec.externalIPs", warned, noNetwork, nil},
	{"ServiceSpec.externalName", warned, noNetwork, nil},
	{"ServiceSpec.externalTrafficPolicy", ignored, oneHost, nil},
	{"ServiceSpec.healthCheckNodePort", ignored, oneHost, nil},
	{"ServiceSpec.internalTrafficPolicy", ignored, oneHost, nil},
	{"ServiceSpec.ipFamilies", ignored, noNetwork, nil},
	{"ServiceSpec.ipFamilyPolicy", ignored, noNetwork, nil},
	{"ServiceSpec.loadBalancerClass", warned, noNetwork, nil},
	{"ServiceSpec.loadBalancerIP", warned, noNetwork, nil},
	{"ServiceSpec.loadBalancerSourceRanges", warned, "an Ingress of the file is open to every address", nil},
	{"ServiceSpec.ports", honored, "for an Ingress", nil},
	{"ServiceSpec.publishNotReadyAddresses", warned, "only copies that are ready get requests", nil},
	{"ServiceSpec.selector", honored, "for an Ingress", nil},
	{"ServiceSpec.sessionAffinity", warned, "each request may go to another copy", []string{"None"}},
	{"ServiceSpec.sessionAffinityConfig", warned, "each request may go to another copy", nil},
	{"ServiceSpec.trafficDistribution", ignored, oneHost, nil},
	{"ServiceSpec.type", warned, noNetwork, []string{"ClusterIP"}},
	{"ServicePort.appProtocol", honored, "HTTP/2 without TLS; TLS to containers is refused", nil},
	{"ServicePort.name", honored, "", nil},
	{"ServicePort.nodePort", warned, noNetwork, nil},
	{"ServicePort.port", honored, "", nil},
	{"ServicePort.protocol", honored, "", nil},
	{"ServicePort.targetPort", honored, "", nil},

	{"Ingress.apiVersion", honored, "`networking.k8s.io/v1`", nil},
	{"Ingress.kind", honored, "", nil},
	{"Ingress.metadata", honored, "annotations of controllers are honored, warned of or refused", nil},
	{"Ingress.spec", honored, "", nil},
	{"Ingress.status", ignored, running, nil},
	{"IngressSpec.defaultBackend", honored, "left out, with a warning", nil},
	{"IngressSpec.ingressClassName", honored, "a warning: `podtask ingress` serves all of them", nil},
	{"IngressSpec.rules", honored, "", nil},
	{"IngressSpec.tls", honored, "", nil},
	{"IngressTLS.hosts", honored, "", nil},
	{"IngressTLS.secretName", honored, "", nil},
	{"IngressRule.host", honored, "", nil},
	{"IngressRule.http", honored, "", nil},
	{"HTTPIngressRuleValue.paths", honored, "", nil},
	{"HTTPIngressPath.backend", honored, "", nil},
	{"HTTPIngressPath.path", honored, "", nil},
	{"HTTPIngressPath.pathType", honored, "`Exact` is refused", nil},
	{"IngressBackend.resource", honored, "left out, with a warning", nil},
	{"IngressBackend.service", honored, "", nil},
	{"TypedLocalObjectReference.apiGroup", ignored, "its backend is left out", nil},
	{"TypedLocalObjectReference.kind", ignored, "its backend is left out", nil},
	{"TypedLocalObjectReference.name", ignored, "its backend is left out", nil},
	{"IngressServiceBackend.name", honored, "", nil},
	{"IngressServiceBackend.port", honored, "", nil},
	{"ServiceBackendPort.name", honored, "", nil},
	{"ServiceBackendPort.number", honored, "", nil},
}

// copies returns the number of copies of a service of the controller; nil if the document does not say.
func (m *manifest) copies() *int {
	n := int(m.owner.at("spec").at("replicas").integer(0, 1<<31-1, -1))
	if m.kind.template == nil || n < 0 {
		return nil
	}
	return &n
}

// numbering returns the numbers of the Pods of a StatefulSet; nil for other kinds.
func (m *manifest) numbering() *Numbered {
	if m.kind.name != "StatefulSet" {
		return nil
	}
	spec := m.owner.at("spec")
	return &Numbered{First: int(spec.at("ordinals").at("start").integer(0, maxOrdinal, 0)),
		Parallel: spec.at("podManagementPolicy").word("OrderedReady", "OrderedReady", "Parallel") == "Parallel"}
}

// maxOrdinal leaves room for the numbers of all copies.
const maxOrdinal = 1<<31 - 1 - 1000

// replicas warns of a number of copies other than the one that runs.
func (m *manifest) replicas() {
	v := m.owner.at("spec").at("replicas")
	const absent = -1
	switch n := v.integer(0, 1<<31-1, absent); {
	case m.kind.template == nil || n == absent || n == 1:
	case n == 0:
		v.warn("the document asks for no Pod, and one runs", "")
	default:
		v.warn("`run` runs one Pod: copies are those of a service", "keep "+v.node.Text+" with podtask service create NAME FILE")
	}
}
