// Package scaling is the part scaling: `podtask service scaling`, and what an agent does for services that scale.
package scaling
