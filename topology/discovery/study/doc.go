// Package study measures how well topology discovery works, on the thesis's tables and on made-up networks. It has
// tests alone: make topology-study runs them in full and writes the tables of docs/topology.md.
package study
