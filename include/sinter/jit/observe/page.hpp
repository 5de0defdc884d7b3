// The page of explain(): its style, its frame and its program, in CSS, HTML and JavaScript. What it shows comes as JSON
// (page.ipp). It loads nothing and asks nobody.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

inline constexpr const char* page_style = R"css(
:root{color-scheme:light dark;--fg:#1b1b1b;--bg:#fff;--soft:#f2f2f2;--line:#ccc;--accent:#0b62c4;--warm:#c2410c}
@media(prefers-color-scheme:dark){:root{--fg:#e8e8e8;--bg:#161616;--soft:#242424;--line:#444;--accent:#6cb2ff;--warm:#fb923c}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--fg);background:var(--bg);margin:0 auto;max-width:1240px;padding:12px 20px}
h1{font-size:20px;margin:6px 0}h2{font-size:16px;margin:22px 0 6px;border-bottom:1px solid var(--line)}
pre{background:var(--soft);padding:8px;overflow:auto;max-height:420px;font:12px/1.4 ui-monospace,monospace;margin:4px 0}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:3px 8px;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}tr.row{cursor:pointer}
tr.row:hover,tr.on{background:var(--soft)}
.swatch{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px;background:hsl(var(--h) 55% 60%)}
.tools{display:flex;gap:8px;flex-wrap:wrap;align-items:center;margin:6px 0}input,select,button{font:inherit}
.picture{border:1px solid var(--line);height:300px;overflow:hidden;display:none;touch-action:none}
.picture.on{display:block}
.picture svg{width:100%;height:100%;cursor:grab}
.two{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,3fr);gap:10px}
.charts{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:16px}
@media(max-width:800px){.two,.charts{grid-template-columns:1fr}}
.chart text{font:11px system-ui,sans-serif;fill:var(--fg)}.chart .axis{stroke:var(--line);fill:none}
.chart .roof{stroke:var(--accent);fill:none;stroke-width:2}
.chart .cache{stroke:var(--accent);fill:none;stroke-dasharray:3 4;opacity:.55}.note{opacity:.75}
.bar{background:var(--accent);height:8px;border-radius:2px}
)css";

inline constexpr const char* page_body = R"html(
<h1 id="title">explain()</h1><div id="overview"></div>
<div class="tools"><label>Plan <select id="part"></select></label>
<input id="search" type="search" placeholder="search op, type, line"><span id="found" class="note"></span>
<button id="fit">fit</button><button id="in">+</button><button id="out">&minus;</button>
<span class="note">drag to move, wheel to zoom; a colour is a kernel</span></div>
<div id="here"></div><h2>Kernels</h2><div id="kernels"></div><div id="detail"></div>
<div class="charts"><div><h2>Roofline</h2><div id="roof"></div></div><div><h2>Memory between the kernels, over time</h2><div id="memory"></div></div></div>
<h2>Borders between kernels</h2><div id="borders"></div>
)html";

inline constexpr const char* page_script = R"js(
'use strict';
const data=JSON.parse(document.getElementById('data').textContent),$=id=>document.getElementById(id);
const esc=s=>String(s).replace(/[&<>"]/g,c=>({'&':'&amp;','<':'&lt;','>':'&gt;','"':'&quot;'}[c]));
const hue=k=>k*67%360,swatch=k=>`<span class="swatch" style="--h:${hue(k)}"></span>`;
const unit=(v,names)=>{let i=0;while(v>=1000&&i<names.length-1){v/=1000;
  i++}return (v>=100||v==Math.round(v)?v.toFixed(0):v.toFixed(2))+' '+names[i]};
const bytes=v=>unit(v,['B','kB','MB','GB','TB']),flops=v=>v?unit(v,['','k','M','G','T']):'0',time=v=>unit(v,['ns','us','ms','s']);
let part=0,view={};
function lines(text){return text.split('\n').filter(l=>l.trim())}
function overview(){
  $('title').textContent='explain(): the function compiled at '+(data.line||'?');
  let html='';
  if(data.call)html+=`<p>A call takes <b>${time(data.call)}</b> (median, measured).</p>`;
  if(data.breaks)html+='<h2>Graph breaks</h2><pre>'+esc(data.breaks)+'</pre>';
  html+='<details'+(lines(data.guards).length<9?' open':'')+'><summary>Guards ('+lines(data.guards).length+')</summary><pre>'+esc(data.guards)+'</pre></details>';
  html+='<p class="note">'+esc(data.times).replace(/\n/g,'<br>')+'</p>';
  $('overview').innerHTML=data.parts.length?html:'<p>The call runs the function uncompiled: see the text.</p>';
}
function setBox(svg,v){svg.setAttribute('viewBox',`${v.x} ${v.y} ${v.w} ${v.h}`)}
function current(){return document.querySelector('.picture.on svg')}
function fit(readable){const svg=current();if(!svg)return;
  const b=svg.dataset.box.split(' ').map(Number),r=svg.getBoundingClientRect(),a=r.width/Math.max(1,r.height);
  let w=b[2],h=b[3];if(w/h<a)w=h*a;else h=w/a;view={x:(b[2]-w)/2,y:(b[3]-h)/2,w,h};
  if(readable===true&&w>r.width*1.4){view={x:0,y:(b[3]-h*r.width*1.4/w)/2,w:r.width*1.4,h:h*r.width*1.4/w}}setBox(svg,view)}
function zoom(f,cx,cy){const svg=current();if(!svg)return;cx=cx??.5;cy=cy??.5;
  view.x+=view.w*(1-f)*cx;view.y+=view.h*(1-f)*cy;view.w*=f;view.h*=f;setBox(svg,view)}
function pictures(){
  document.querySelectorAll('.picture').forEach((p,i)=>{
    const svg=p.querySelector('svg');
      if(!svg){p.innerHTML='<p class="note">The graph is too large to be drawn: see the text.</p>';return}
    svg.dataset.box=svg.getAttribute('viewBox');svg.removeAttribute('width');svg.removeAttribute('height');
    svg.setAttribute('preserveAspectRatio','xMidYMid meet');
    svg.addEventListener('wheel',e=>{e.preventDefault();const r=svg.getBoundingClientRect();
      zoom(e.deltaY>0?1.15:1/1.15,(e.clientX-r.left)/r.width,(e.clientY-r.top)/r.height)},{passive:false});
    let last=null;svg.addEventListener('pointerdown',e=>{last=[e.clientX,e.clientY]});
    addEventListener('pointerup',()=>last=null);
    addEventListener('pointermove',e=>{if(!last||!p.classList.contains('on'))return;
      const r=svg.getBoundingClientRect();
      view.x-=(e.clientX-last[0])*view.w/r.width;view.y-=(e.clientY-last[1])*view.h/r.height;
        last=[e.clientX,e.clientY];setBox(svg,view)});
    svg.addEventListener('click',e=>{const g=e.target.closest('.box');
      if(g&&g.dataset.group>=0)detail(+g.dataset.group)});
  });
  $('here').append($('pictures'));
}
function search(){
  const q=$('search').value.toLowerCase(),svg=current();let n=0,first=null;if(!svg)return;
  svg.querySelectorAll('.box').forEach(g=>{const hit=q&&g.querySelector('title').textContent.toLowerCase().includes(q);
    g.classList.toggle('found',!!hit);if(hit){n++;first=first||g}});
  $('found').textContent=q?n+' found':'';
  if(first){const r=first.querySelector('rect'),x=+r.getAttribute('x'),y=+r.getAttribute('y');
    if(x<view.x||y<view.y||x>view.x+view.w||y>view.y+view.h){view.x=x-view.w/2;view.y=y-view.h/2;setBox(svg,view)}}
}
function kernels(){
  const ks=data.parts[part].kernels,timed=ks.some(k=>k.ns),total=ks.reduce((s,k)=>s+(k.ns||0)*(k.runs||1),0);
  let html='<table><tr><th>kernel</th><th>kind</th><th>lines</th><th class=n>bytes</th><th class=n>flops</th>'+(timed?'<th class=n>time</th><th class=n>GB/s</th><th class=n>GFLOP/s</th><th class=n>of the limit</th><th></th>':'')+'</tr>';
  ks.forEach((k,i)=>{html+=`<tr class="row" data-k="${i}"><td>${swatch(i)}${i} ${esc(k.name)}</td><td>${esc(k.kind)} [${esc(k.backend)}]</td><td>${esc(k.lines)}</td><td class=n>${bytes(k.bytes)}</td><td class=n>${flops(k.flops)}</td>`;
    if(timed)html+=k.ns?`<td class=n>${time(k.ns)}</td><td class=n>${(k.bytes/k.ns).toFixed(1)}</td><td class=n>${(k.flops/k.ns).toFixed(1)}</td><td class=n>${k.share?(100*k.share).toFixed(0)+' % '+k.bound:'-'}</td><td style="width:80px"><div class="bar" style="width:${Math.max(1,100*k.ns*(k.runs||1)/total)}%"></div></td>`:'<td class=n colspan=4>not measured</td><td></td>';
    html+='</tr>'});
  $('kernels').innerHTML=ks.length?html+'</table>'+(timed?'':'<p class="note">Times: give a profile to html().</p>'):'<p class="note">No kernel is compiled here.</p>';
  document.querySelectorAll('#kernels .row').forEach(r=>r.onclick=()=>detail(+r.dataset.k));
}
function detail(i){
  const k=data.parts[part].kernels[i];if(!k)return;
  document.querySelectorAll('#kernels .row').forEach((r,j)=>r.classList.toggle('on',i==j));
  $('detail').innerHTML=`<h2>${swatch(i)}kernel ${i}: ${esc(k.name)}</h2><div class="two"><div><b>Your lines</b><pre>${esc(k.source||k.lines||'(not known)')}</pre>${k.declined?'<p class="note">declined before: '+esc(k.declined)+'</p>':''}<b>What it computes</b><pre>${esc(k.kernel||'an operation of the host')}</pre></div><div><b>Its loop nest and code</b><pre>${esc(k.code||'(none)')}</pre></div></div>`;
}
function borders(){
  const b=data.parts[part].borders,ks=data.parts[part].kernels;
  $('borders').innerHTML=b.length?'<table><tr><th>from</th><th>to</th><th>value</th><th>why they are two kernels</th></tr>'+b.map(e=>`<tr><td>${swatch(e.from)}${e.from} ${esc((ks[e.from]||{}).name)}</td><td>${swatch(e.to)}${e.to} ${esc((ks[e.to]||{}).name)}</td><td>${esc(e.value)}</td><td>${esc(e.why)}</td></tr>`).join('')+'</table>':'<p class="note">No value goes from one kernel to another.</p>';
}
function memory(){
  const p=data.parts[part],m=p.memory,n=p.kernels.length;
  if(!m||!m.slots.length){$('memory').innerHTML='<p class="note">Nothing lies in memory between its kernels.</p>';
    return}
  const W=560,H=250,L=70,B=24,x=s=>L+(W-L-8)*s/n,y=b=>H-B-(H-B-10)*b/m.total;
  let s=`<svg class="chart" viewBox="0 0 ${W} ${H}" width="100%"><path class="axis" d="M${L} 10V${H-B}H${W-8}"/><text x="${L-6}" y="16" text-anchor="end">${bytes(m.total)}</text><text x="${L-6}" y="${H-B}" text-anchor="end">0</text>`;
  for(let i=0;i<n;
    i+=Math.max(1,Math.ceil(n/16)))s+=`<text x="${(x(i)+x(i+1))/2}" y="${H-8}" text-anchor="middle">${i}</text>`;
  for(const e of m.slots)s+=`<rect x="${x(e.first)+1}" y="${y(e.at+e.bytes)}" width="${Math.max(2,x(e.last+1)-x(e.first)-2)}" height="${Math.max(1,y(e.at)-y(e.at+e.bytes)-1)}" style="fill:hsl(${hue(Math.max(0,e.first))} 50% 55%)"><title>${esc(bytes(e.bytes)+', kernels '+e.first+' to '+e.last+': made by '+(e.by||'?')+(e.line?' from '+e.line:''))}</title></rect>`;
  $('memory').innerHTML=s+'</svg><p class="note">across: kernels in order; up: the arena. Point at a block for its line.</p>';
}
function roof(){
  const p=data.parts[part],lim=data.limits.find(l=>l.device==p.device)||data.limits[0],pts=p.kernels.map((k,i)=>({k,i})).filter(e=>e.k.ns&&e.k.flops&&e.k.bytes);
  if(!lim||!pts.length){$('roof').innerHTML='<p class="note">'+(data.limits.length?'No measured kernel computes with floating-point numbers.':'Give a profile to html(): kernels are placed by their measured times.')+'</p>';
    return}
  const W=560,H=250,L=56,B=34,lg=Math.log10,peak=Math.max(lim.f32,lim.f64),mem=lim.streams[lim.streams.length-1].gbs;
  const xs=pts.map(e=>e.k.flops/e.k.bytes),ys=pts.map(e=>e.k.flops/e.k.ns);
  const x0=Math.floor(lg(Math.min(.05,...xs))),x1=Math.ceil(lg(Math.max(100,...xs))),y0=Math.floor(lg(Math.min(.1,...ys))),y1=Math.ceil(lg(Math.max(peak,...ys)*1.1));
  const X=v=>L+(W-L-10)*(lg(v)-x0)/(x1-x0),Y=v=>H-B-(H-B-8)*(lg(v)-y0)/(y1-y0);
  const line=(bw,c)=>{const knee=peak/bw,start=Math.max(10**x0,10**y0/bw);
    return knee>start?`<path class="${c}" d="M${X(start)} ${Y(start*bw)}L${X(knee)} ${Y(peak)}H${W-10}"/>`:''};
  let s=`<svg class="chart" viewBox="0 0 ${W} ${H}" width="100%"><path class="axis" d="M${L} 8V${H-B}H${W-10}"/>`;
  for(let e=x0;e<=x1;e++)s+=`<text x="${X(10**e)}" y="${H-B+14}" text-anchor="middle">${10**e}</text>`;
  for(let e=y0;e<=y1;e++)s+=`<text x="${L-5}" y="${Y(10**e)+4}" text-anchor="end">${10**e}</text>`;
  s+=`<text x="${(L+W)/2}" y="${H-4}" text-anchor="middle">flop per byte</text><text x="${L+6}" y="18">GFLOP/s</text>`;
  lim.streams.slice(0,-1).forEach(t=>s+=line(t.gbs,'cache'));s+=line(mem,'roof');
  s+=`<text x="${W-12}" y="${Y(peak)-5}" text-anchor="end">${peak.toFixed(0)} GFLOP/s</text>`;
  for(const e of pts)s+=`<circle cx="${X(e.k.flops/e.k.bytes)}" cy="${Y(e.k.flops/e.k.ns)}" r="6" style="fill:hsl(${hue(e.i)} 60% 50%);stroke:var(--fg)"><title>${esc(e.i+' '+e.k.name+': '+time(e.k.ns))}</title></circle><text x="${X(e.k.flops/e.k.bytes)+9}" y="${Y(e.k.flops/e.k.ns)+4}">${e.i}</text>`;
  $('roof').innerHTML=s+`</svg><p class="note">Measured on ${esc(lim.device)}: the solid roof is memory at ${mem.toFixed(1)} GB/s, the dashed ones are caches.</p>`;
}
function show(i){
  part=i;document.querySelectorAll('.picture').forEach((p,j)=>p.classList.toggle('on',i==j));
  fit(true);kernels();borders();memory();roof();search();
  const ks=data.parts[i].kernels;
    if(ks.length)detail(ks.reduce((b,k,j)=>(k.ns||0)*(k.runs||1)>(ks[b].ns||0)*(ks[b].runs||1)?j:b,0));
    else $('detail').innerHTML='';
}
overview();pictures();
$('part').innerHTML=data.parts.map((p,i)=>`<option value="${i}">${esc(p.title)}</option>`).join('');
$('part').onchange=()=>show(+$('part').value);$('search').oninput=search;$('fit').onclick=()=>fit();
  $('in').onclick=()=>zoom(1/1.3);$('out').onclick=()=>zoom(1.3);
if(data.parts.length)show(0);
document.body.dataset.ready='yes';
)js";

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
