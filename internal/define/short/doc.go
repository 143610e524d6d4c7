// Package short reads podtask's short form of a task definition, whose members have the words and values of a stack file and of
// Compose, and turns it into the tree of an ECS task definition. Every value of that tree has the place of what it was made from, so
// that everything that is said of the definition names the line of the short file.
//
// The form has a key for what most tasks need. A key that it does not have is an error that names the key to write, never a loss. A
// member of a stack file that has an image instead of a file is a container of this form.
package short
