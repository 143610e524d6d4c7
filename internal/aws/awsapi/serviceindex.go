package awsapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/service"
)

// serviceIndex is the index of the services that there are, by name and by cluster, and of those that were removed within
// the hour.
type serviceIndex struct {
	services Services
	tags     *resource.TagStore
	records  *state.Store
	now      func() time.Time
}

func newServiceIndex(services Services, tags *resource.TagStore, records *state.Store, now func() time.Time) *serviceIndex {
	return &serviceIndex{services: services, tags: tags, records: records, now: now}
}

// find returns a service of the host.
func (o *serviceIndex) find(name string) (service.State, bool) { return o.services.State(name) }

// named reads the name or the ARN of a service in a cluster.
func (o *serviceIndex) named(path, cluster, text string) (service.State, string, bool, error) {
	name, err := inCluster(path, "service", cluster, text)
	if err != nil {
		return service.State{}, "", false, err
	}
	s, ok := o.find(name)
	return s, name, ok && clusterOfService(s) == cluster, nil
}

// tagged implements tagging for services.
func (o *serviceIndex) tagged(text string) (string, []resource.Tag, error) {
	rest, _, err := cut("resourceArn", "service", text)
	if err != nil {
		return "", nil, err
	}
	cluster, name, two := strings.Cut(rest, "/")
	if !two {
		cluster, name = arn.DefaultCluster, rest
	}
	s, ok := o.find(name)
	if !ok || clusterOfService(s) != cluster {
		return "", nil, protocol.Failf("ServiceNotFoundException", "Service not found.")
	}
	return arn.Service(cluster, name), serviceClientOf(s.Config).Tags, nil
}

// perCluster counts the active services of each cluster.
func (o *serviceIndex) perCluster() map[string]int {
	all := make(map[string]int)
	for _, s := range o.services.States() {
		if s.Status == service.Active {
			all[clusterOfService(s)]++
		}
	}
	return all
}

// uses reports whether a service has a deployment of FAMILY:REVISION.
func (o *serviceIndex) uses(definition string) bool {
	return slices.ContainsFunc(o.services.States(), func(s service.State) bool {
		return slices.ContainsFunc(s.Deployments, func(d service.Deployment) bool { return d.TaskDefinition == definition })
	})
}

// Known reports whether a service is there, or was within the hour.
func (o *serviceIndex) Known(cluster, name string) bool {
	s, ok := o.find(name)
	if ok && clusterOfService(s) == cluster {
		return true
	}
	_, was := o.deleted(cluster, name)
	return was
}

// Count returns the cluster and the desired count of a service.
func (o *serviceIndex) Count(name string) (cluster string, desired int, found bool) {
	s, found := o.find(name)
	return clusterOfService(s), s.DesiredCount, found
}

// executes reports whether clients may run programs in the tasks of a service.
func (o *serviceIndex) executes(name string) bool {
	s, ok := o.find(name)
	return ok && serviceClientOf(s.Config).Exec
}

// serviceRecord is a service that was removed.
type serviceRecord struct {
	Kind      string        `json:"kind"`
	State     service.State `json:"state"`
	DeletedAt time.Time     `json:"deletedAt"`
}

// remember keeps a service that is about to be removed: clients wait until it is INACTIVE.
func (o *serviceIndex) remember(s service.State) error {
	s.Tasks, s.Completed, s.Unheard, s.History, s.Revisions = nil, nil, nil, nil, nil
	s.Deployments = s.Deployments[:1]
	s.DesiredCount = 0
	data, err := json.Marshal(serviceRecord{kindService, s, o.now().UTC()})
	if err != nil {
		return err
	}
	return o.records.Put(resource.RecordKey(kindService, s.Name), data)
}

// deleted returns a service of a cluster that was removed within the hour.
func (o *serviceIndex) deleted(cluster, name string) (s service.State, ok bool) {
	data, err := o.records.Get(resource.RecordKey(kindService, name))
	var r serviceRecord
	if err != nil || json.Unmarshal(data, &r) != nil || len(r.State.Deployments) == 0 || clusterOfService(r.State) != cluster || o.now().Sub(r.DeletedAt) > shownInactive {
		return s, false
	}
	r.State.Status = inactive
	return r.State, true
}

// clusterOfService is the cluster that a service is in.
func clusterOfService(s service.State) string { return cmp.Or(s.Config.Cluster, arn.DefaultCluster) }
