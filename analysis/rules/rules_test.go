package rules

import "testing"

func TestSmoke(t *testing.T) {
	var known []Known
	for _, n := range []string{"cpu_system", "cpu_idle", "cpu_user", "cpu_iowait", "flops_any", "vectorization_ratio", "clock", "mem_bw", "disk_bytes", "swap_pages", "mem_used", "cpu_load", "acc_utilization", "job_mem_peak", "lustre_read_bw", "lustre_write_bw", "nfs_read_bw", "nfs_write_bw"} {
		known = append(known, Known{n, "1", "core"})
	}
	s, err := Compile(known, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(len(s.Rules), s.layout.stride, s.layout.slots)
	_, err = Compile(known, nil, Source{"site.yaml", []byte("- id: x\n  title: t\n  needs: [cpu_idle]\n  each: cpu_idle.d55 > 3\n  severity: {of: cpu_idle.mean, from: 0, to: 1}\n- id: y\n  title: t\n  needs: [cpu_idle]\n  each: \"!(cpu_idle.d5 > 3)\"\n  severity: {of: cpu_idle.mean, from: 0, to: 1}\n  foo: 3\n- id: z\n  title: t\n  needs: [nope]\n  each: \"nope.d5 > 3\"\n  severity: {of: cpu_idle.mean, from: 0, to: 1}\n- id: z2\n  title: t\n  needs: [cpu_idle]\n  each: \"cpu_idl.d5 > 3\"\n  severity: {of: cpu_idle.mean, from: 0, to: 1}\n")})
	t.Log(err)
}
