package pod

// Values of oom_score_adj (kubelet, pkg/kubelet/qos): the kernel kills the processes with the highest score first when memory is
// short.
const (
	firstKilled = 1000 // of a BestEffort Pod
	lastKilled  = -997 // of a Guaranteed Pod
)

// oomScores gives each container the oom_score_adj that a kubelet would give it. Without the memory of the host there
// is none.
func (b *reader) oomScores() {
	b.result.Pod.HostMemory = b.options.Memory
	if b.options.Memory <= 0 {
		return
	}
	whole := b.ofWholePod()
	least := b.options.Memory // that a regular container requests
	request := func(i int) int64 {
		_, requests := declared(b.containers[i].at("resources"))
		return min(max(requests.memory.times(1), 0)+whole, b.options.Memory)
	}
	for i := range b.containers {
		if b.result.Task.Containers[i].Essential {
			least = min(least, request(i))
		}
	}
	for i := range b.containers {
		c := &b.result.Task.Containers[i]
		memory := request(i)
		if b.result.Pod.isSidecar(c.Name) { // not killed before what it is for
			memory = max(memory, least)
		}
		c.Extensions.Kube.OOMScoreAdj = b.oomScore(memory)
	}
}

// oomScore returns the oom_score_adj of a container by the memory that it requests, in bytes (kubelet,
// GetContainerOOMScoreAdjust).
func (b *reader) oomScore(memory int64) int {
	switch class := b.result.Pod.QOSClass; {
	case class == Guaranteed || b.spec.at("priorityClassName").str() == "system-node-critical":
		return lastKilled
	case class == BestEffort:
		return firstKilled
	}
	score := firstKilled - int(firstKilled*memory/b.options.Memory)
	return min(max(score, firstKilled+lastKilled), firstKilled-1)
}

// ofWholePod returns the share of a container in the memory that the Pod requests beyond its containers, in bytes.
func (b *reader) ofWholePod() int64 {
	_, whole := declared(b.spec.at("resources"))
	if whole.memory.zero() {
		return 0
	}
	own := b.total(func(_, requests amounts) amounts { return requests })
	return max(whole.memory.times(1)-own.memory.times(1), 0) / int64(len(b.containers))
}
