// Package mototest runs moto, a server that imitates AWS, for tests.
package mototest
