// Package podmanifest makes the document of which the agent makes a task: a Pod with the ConfigMaps, Secrets, tokens and certificates that it
// refers to, each asked for by name, and the variables of Services. It writes the files of volumes, and renews what ends.
package podmanifest
